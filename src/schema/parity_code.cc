#include "schema/parity_code.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace trireme {
namespace {

// Groups have fewer than twice as many hosts (parity_groups), and ReedSolomon has at most 255
// blocks.
constexpr int kMostHostsOfCode = 127;

// Returns -1 if the text is not a number from 1 to kMostHostsOfCode.
int count_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && number >= 1 && number <= kMostHostsOfCode ? number : -1;
}

}  // namespace

Result<ParityChoice> parse_parity(std::string_view text) {
  if (text == "auto") return ParityChoice{.is_auto = true};
  if (text == "none") return ParityChoice{};
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    const ParityCode code{count_in(text.substr(0, plus)), count_in(text.substr(plus + 1))};
    const bool is_valid = code.num_data > 0 && code.num_parity > 0 &&
                          code.num_data + code.num_parity <= kMostHostsOfCode;
    if (is_valid) return ParityChoice{.code = code};
  }
  return usage(
      "is neither \"auto\" nor \"none\" nor K+M with at least one host each and at most 127 in "
      "all, such as \"4+2\"");
}

ParityCode parity_for(const ParityChoice& choice, int num_hosts) {
  ParityCode code = choice.code;
  if (choice.is_auto) code = num_hosts > 2 ? ParityCode{2, 1} : ParityCode{1, 1};
  code.num_parity = std::min(code.num_parity, num_hosts - 1);
  code.num_data = std::clamp(num_hosts - code.num_parity, 1, code.num_data);
  return code;
}

}  // namespace trireme
