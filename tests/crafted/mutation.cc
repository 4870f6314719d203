#include "mutation.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

constexpr const char* kNumbers[] = {
    "-1",   "0",    "4294967296", "9223372036854775807", "1e308", "18446744073709551615", "null",
    "[[]]", "\"\"", "16777216"};
constexpr const char* kNests[] = {"[", "{\"a\":", "a.", "[[", "{a=", "\"\\u"};

// Replaces a run of digits after the position, if there is one.
void change_number(std::string& file, size_t at, CraftedRandom& random) {
  const size_t begin = file.find_first_of("0123456789", at);
  if (begin == std::string::npos) return;
  const size_t end = std::min(file.find_first_not_of("0123456789", begin), file.size());
  file.replace(begin, end - begin, kNumbers[random.below(std::size(kNumbers))]);
}

// Replaces eight or four bytes that may be a length.
void change_length(std::string& file, size_t at, CraftedRandom& random) {
  const uint64_t lengths[] = {0,
                              1,
                              UINT64_MAX,
                              uint64_t{1} << 31,
                              uint64_t{1} << 62,
                              file.size(),
                              file.size() - 8,
                              uint64_t{1} << 24};
  const uint64_t length = lengths[random.below(std::size(lengths))];
  const size_t width = random.below(2) == 0 ? 4 : 8;
  if (at + width <= file.size()) std::memcpy(file.data() + at, &length, width);
}

void add_nesting(std::string& file, size_t at, CraftedRandom& random) {
  const std::string part = kNests[random.below(std::size(kNests))];
  std::string nest;
  for (uint64_t left = uint64_t{1} << random.below(16); left > 0; --left) nest += part;
  file.insert(at, nest);
}

void change(std::string& file, CraftedRandom& random) {
  if (file.empty()) file = "x";
  // Half of the changes are in the header, where readers make decisions.
  const size_t reach = random.below(2) == 0 ? std::min<size_t>(file.size(), 256) : file.size();
  const size_t at = random.below(reach);
  const size_t length = std::min<size_t>(file.size() - at, 1 + random.below(64));
  switch (random.below(9)) {
    case 0:
      file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
      break;
    case 1:
      file[at] = static_cast<char>(random.below(256));
      break;
    case 2:
      file.resize(at);
      break;
    case 3:
      file.erase(at, length);
      break;
    case 4:
      file.insert(at, file.substr(at, length));
      break;
    case 5:
      file.insert(random.below(file.size()), file.substr(at, length));
      break;
    case 6:
      change_number(file, at, random);
      break;
    case 7:
      change_length(file, at, random);
      break;
    default:
      add_nesting(file, at, random);
  }
}

}  // namespace

uint64_t CraftedRandom::below(uint64_t end) {
  state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
  return (state_ >> 11) % end;
}

std::string mutated(const std::string& file, CraftedRandom& random) {
  std::string crafted = file;
  for (uint64_t left = 1 + random.below(4); left > 0; --left) change(crafted, random);
  return crafted;
}

}  // namespace trireme
