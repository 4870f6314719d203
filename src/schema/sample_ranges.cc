#include "schema/sample_ranges.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

namespace trireme {
namespace {

constexpr int64_t kMostSample = int64_t{1} << 60;

std::optional<int64_t> sample_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && number >= 0 && number <= kMostSample ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<std::vector<SampleRange>> parse_sample_ranges(std::string_view text) {
  std::vector<SampleRange> ranges;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const auto first = sample_in(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : sample_in(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return usage(
          fmt::format("\"{}\" is no range of samples; write the first and the last one, "
                      "such as \"28-31\"",
                      part));
    }
    ranges.push_back({*first, *last - *first + 1});
    if (ranges.size() > kMostSampleRanges) {
      return usage(fmt::format("has more than {} ranges", kMostSampleRanges));
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return usage("ends with a comma");
  }
  return ranges;
}

}  // namespace trireme
