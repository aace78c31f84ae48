// Reads waiver documents, one per line. Prints a line for each: empty, or why the document is not valid.
#include <iostream>
#include <stdexcept>
#include <string>

#include "reports/model/waiver.hpp"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      shardproof::reports::parse_waivers(line);
    } catch (const std::invalid_argument& refusal) {
      std::cout << refusal.what();
    }
    std::cout << '\n';
  }
}
