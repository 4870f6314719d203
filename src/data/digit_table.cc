#include "data/digit_table.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "data/whole_file.h"

namespace trireme {
namespace {

constexpr ImageExtents kDigitExtents{8, 8, 1};
constexpr int kNumbers = 65;

// Reads a whole number from 0 to `most`; returns -1 for anything else.
int whole_number(std::string_view text, int most) {
  double number = 0.0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = failure == std::errc{} && end == text.data() + text.size() && number >= 0 &&
                        number <= most && number == std::floor(number);
  return is_whole ? int(number) : -1;
}

}  // namespace

Result<std::unique_ptr<HeldImages>> parse_digit_table(std::string_view text,
                                                      const std::string& name) {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    for (int column = 0; column < kNumbers; ++column) {
      const size_t end = line.find(',');
      const bool is_last = column + 1 == kNumbers;
      const int number = whole_number(line.substr(0, end), is_last ? 9 : 16);
      if (number < 0 || (end == std::string_view::npos) != is_last) {
        return damaged(
            fmt::format("{}, line {}, column {}: a line has 64 pixels from 0 to 16 and "
                        "a digit from 0 to 9, separated by commas",
                        name, line_number, column + 1));
      }
      if (is_last) {
        labels.push_back(number);
      } else {
        pixels.push_back(uint8_t(number * 255 / 16));
      }
      line.remove_prefix(is_last ? line.size() : end + 1);
    }
  }
  if (labels.empty()) return damaged(fmt::format("{} has no line", name));
  return std::make_unique<HeldImages>(kDigitExtents, 10, std::move(pixels), std::move(labels));
}

Result<std::unique_ptr<HeldImages>> read_digit_table(const std::string& path) {
  TRIREME_TRY(bytes, read_whole_file(path, int64_t{64} << 20));
  return parse_digit_table({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace trireme
