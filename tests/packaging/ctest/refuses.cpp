// A program that cannot list its cases.
#include <cstdio>

int main() {
  std::fputs("a library is missing here\n", stderr);
  return 3;
}
