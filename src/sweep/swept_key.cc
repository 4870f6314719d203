#include "sweep/swept_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "config/unknown_key.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

constexpr double kExactIntegers = 1e15;  // below it, every integer is a double
constexpr const char* kForms =
    "write A..B:log5, A..B:lin5 or v1,v2,v3, such as optim.lr=1e-4..1e-2:log5";

Error wrong_spec(std::string_view text, const std::string& why) {
  return usage(fmt::format("--over {}: {}", text, why));
}

std::optional<double> number_in(std::string_view text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Cuts a list at the commas that stand outside of quotes and brackets.
std::vector<std::string> cut_list(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (is_quoted && c == '\\' && i + 1 < list.size()) {
      parts.back() += c;
      parts.back() += list[++i];
      continue;
    }
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && (c == '[' || c == '{')) ++depth;
    if (!is_quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && !is_quoted && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

double exact_value_at(const SweptKey& key, double share) {
  if (key.spacing == Spacing::Linear) return key.from * (1.0 - share) + key.to * share;
  return std::exp(std::log(key.from) * (1.0 - share) + std::log(key.to) * share);
}

// The values of a range at equal distances. The ends are those that were written.
std::vector<std::string> spaced_values(const SweptKey& key, int64_t count) {
  std::vector<std::string> values;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_end = i == 0 || i + 1 == count;
    const double share = count == 1 ? 0.0 : double(i) / double(count - 1);
    const double value = !is_end ? value_at(key, share) : i == 0 ? key.from : key.to;
    values.push_back(number_text(value));
  }
  return values;
}

Status check_range(const SweptKey& key, std::string_view text) {
  if (key.spacing == Spacing::Log && key.from <= 0.0) {
    return wrong_spec(text, fmt::format("a log range has only numbers above 0, and {} is none; "
                                        "begin above 0, or write lin instead of log",
                                        number_text(key.from)));
  }
  if (key.from < key.to) return Done{};
  return wrong_spec(text, fmt::format("the range is empty, because {} is not below {}; write the "
                                      "lower end first, or name a single value without \"..\"",
                                      number_text(key.from), number_text(key.to)));
}

// `spacing` is what stands behind the colon: "log5".
Status read_range(std::string_view spacing, std::string_view text, SweptKey& key) {
  const bool is_log = spacing.starts_with("log");
  if (!is_log && !spacing.starts_with("lin")) {
    return wrong_spec(text, fmt::format("a range says how its values are spaced; {}", kForms));
  }
  key.spacing = is_log ? Spacing::Log : Spacing::Linear;
  TRIREME_TRY_DONE(check_range(key, text));
  const std::string_view digits = spacing.substr(3);
  if (digits.empty()) return Done{};
  const std::optional<double> count = number_in(digits);
  const bool is_whole = digits.find_first_not_of("-0123456789") == std::string_view::npos;
  if (!count || !is_whole) {
    return wrong_spec(text, fmt::format("\"{}\" is no number of values; {}", digits, kForms));
  }
  if (*count < 1.0 || *count > double(kMostTrials)) {
    return wrong_spec(text,
                      fmt::format("a range has 1 to {} values, and not {}", kMostTrials, digits));
  }
  key.values = spaced_values(key, int64_t(*count));
  return Done{};
}

Status check_values(const SweptKey& key, std::string_view text) {
  for (size_t i = 0; i < key.values.size(); ++i) {
    if (key.values[i].empty()) {
      return wrong_spec(text, fmt::format("value {} of the list is empty; {}", i + 1, kForms));
    }
    if (std::count(key.values.begin(), key.values.end(), key.values[i]) > 1) {
      return wrong_spec(text,
                        fmt::format("{} is tried twice; name every value once{}", key.values[i],
                                    key.is_integer && key.spacing != Spacing::List
                                        ? ", or fewer values: the key takes integers"
                                        : ""));
    }
  }
  return Done{};
}

Status find_field(std::string_view text, SweptKey& key) {
  const RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    if (field.key() != key.key) continue;
    key.is_integer = std::holds_alternative<int*>(field.value) ||
                     std::holds_alternative<int64_t*>(field.value) ||
                     std::holds_alternative<uint64_t*>(field.value) ||
                     std::holds_alternative<StepsField>(field.value);
    return Done{};
  }
  return wrong_spec(text, unknown_key_message(key.key));
}

}  // namespace

double value_at(const SweptKey& key, double share) {
  const double value = exact_value_at(key, share);
  if (key.is_integer) return std::round(value);
  return std::clamp(number_in(fmt::format("{:.5e}", value)).value_or(value), key.from, key.to);
}

std::string number_text(double value) {
  const bool is_integral = value == std::floor(value) && std::abs(value) < kExactIntegers;
  return is_integral ? fmt::format("{:.0f}", value + 0.0) : fmt::format("{}", value);
}

Result<SweptKey> parse_swept_key(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return wrong_spec(text, fmt::format("expected KEY=VALUES; {}", kForms));
  }
  SweptKey key{.key = std::string(text.substr(0, equals)),
               .spec = std::string(text.substr(equals + 1))};
  TRIREME_TRY_DONE(find_field(text, key));
  const std::string_view spec = key.spec;
  const size_t colon = std::min(spec.rfind(':'), spec.size());
  const size_t dots = spec.find("..");
  if (spec.find("...") < colon) {
    return wrong_spec(text, fmt::format("two dots make a range, and not three; {}", kForms));
  }
  if (dots < colon) {
    const std::optional<double> from = number_in(spec.substr(0, dots));
    const std::optional<double> to = number_in(spec.substr(dots + 2, colon - dots - 2));
    if (from && to) {
      key.from = *from;
      key.to = *to;
      TRIREME_TRY_DONE(read_range(colon == spec.size() ? "" : spec.substr(colon + 1), text, key));
      TRIREME_TRY_DONE(check_values(key, text));
      return key;
    }
    const std::string_view spacing = colon == spec.size() ? "" : spec.substr(colon + 1);
    if (spacing.starts_with("log") || spacing.starts_with("lin")) {
      return wrong_spec(text, fmt::format("the ends of a range are numbers; {}", kForms));
    }
  }
  key.values = cut_list(spec);
  TRIREME_TRY_DONE(check_values(key, text));
  if (key.values.size() > size_t(kMostTrials)) {
    return wrong_spec(text, fmt::format("the list has {} values, and a sweep at most {} trials",
                                        key.values.size(), kMostTrials));
  }
  return key;
}

}  // namespace trireme
