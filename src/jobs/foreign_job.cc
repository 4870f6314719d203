#include "jobs/foreign_job.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"

namespace trireme {
namespace {

std::string quoted(const std::string& text) { return ascii_json_text(nlohmann::json(text)); }

// Always with a point: YAML takes 1e-05 for a string.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (!std::isfinite(value) || text.find('.') != std::string::npos) return text;
  const size_t exponent = std::min(text.find('e'), text.size());
  return text.insert(exponent, ".0");
}

struct Literal {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const NameLists& lists) const {
    std::string text;
    for (const std::vector<std::string>& list : lists) {
      text += text.empty() ? "[" : ", [";
      for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ", ") + quoted(list[i]);
      text += "]";
    }
    return "[" + text + "]";
  }
};

}  // namespace

void ForeignJob::set(std::string key, ForeignValue value, std::string where) {
  settings_.push_back({std::move(key), std::move(value), std::move(where)});
}

const ForeignSetting* ForeignJob::take(std::string_view key) {
  const ForeignSetting* last = nullptr;
  for (ForeignSetting& setting : settings_) {
    if (setting.key != key) continue;
    setting.is_used = true;
    last = &setting;
  }
  return last;
}

std::string literal_text(const ForeignValue& value) { return std::visit(Literal{}, value); }

std::string word_text(const ForeignValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  const auto* number = std::get_if<double>(&value);
  return text != nullptr     ? *text
         : number != nullptr ? fmt::format("{}", *number)
                             : literal_text(value);
}

ForeignValue value_of_word(std::string_view word) {
  const char* const end = word.data() + word.size();
  int64_t integer = 0;
  if (const auto [stop, error] = std::from_chars(word.data(), end, integer);
      error == std::errc{} && stop == end) {
    return integer;
  }
  double number = 0.0;
  if (const auto [stop, error] = std::from_chars(word.data(), end, number);
      error == std::errc{} && stop == end && std::isfinite(number)) {
    return number;
  }
  return std::string(word);
}

}  // namespace trireme
