// A program that is linked to its engine.
extern "C" void engine_run();

int main() { engine_run(); }
