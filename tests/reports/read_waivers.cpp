// Reads files of waivers, one in a line, and says of each in a line what the reader says: nothing, or why it is none.
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
