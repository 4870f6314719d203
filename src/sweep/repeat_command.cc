#include "sweep/repeat_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace trireme {

std::string shell_word(std::string_view word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./+@%:=,-").find(c) != std::string_view::npos;
  });
  if (is_plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string set_options(const SweepSpec& spec, const SweepPoint& point) {
  std::string text;
  for (const std::string& one : overrides_of(spec.keys, point)) {
    text += fmt::format("{}--set {}", text.empty() ? "" : " ", shell_word(one));
  }
  return text;
}

std::string repeat_command(const SweepRecord& record, size_t index, std::string_view program) {
  std::string text = shell_word(program) + " train";
  for (const std::string& file : record.spec.files) text += " " + shell_word(file);
  for (const std::string& one : record.spec.overrides) text += " --set " + shell_word(one);
  if (!record.spec.resume.empty()) text += " --resume " + shell_word(record.spec.resume);
  if (!record.spec.lr_range) {
    const std::string own = set_options(record.spec, record.trials[index].point);
    return own.empty() ? text : text + " " + own;
  }
  const std::optional<double> lr = record.finding.suggested_lr();
  return lr ? fmt::format("{} --set optim.lr={:.2g}", text, *lr) : "";
}

}  // namespace trireme
