#include "jobs/job_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/edit_distance.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

// Messages quote no more than this of a value.
constexpr size_t kShownBytes = 80;

struct ToToml {
  TomlValue operator()(bool value) const { return value; }
  TomlValue operator()(int64_t value) const { return value; }
  TomlValue operator()(double value) const { return value; }
  TomlValue operator()(const std::string& value) const { return value; }
  TomlValue operator()(const NameLists&) const { return OtherToml{"array"}; }
};

std::string text_of(const TomlValue& value) {
  TomlValue copy = value;
  ConfigField field;
  if (auto* v = std::get_if<bool>(&copy)) field.value = v;
  if (auto* v = std::get_if<int64_t>(&copy)) field.value = v;
  if (auto* v = std::get_if<double>(&copy)) field.value = v;
  if (auto* v = std::get_if<std::string>(&copy)) field.value = v;
  if (std::holds_alternative<OtherToml>(copy)) return "(array)";
  return toml_text(field);
}

std::string shown(const ForeignSetting& setting) {
  const auto* is_there = std::get_if<bool>(&setting.value);
  const bool is_bare = is_there != nullptr && *is_there && setting.key.starts_with("--");
  const std::string text =
      is_bare ? setting.key : fmt::format("{} {}", setting.key, word_text(setting.value));
  return text.substr(0, kShownBytes);
}

bool matches(std::string_view pattern, std::string_view key) {
  const bool is_open_left = pattern.starts_with('*');
  const bool is_open_right = pattern.ends_with('*');
  if (is_open_left) pattern.remove_prefix(1);
  if (is_open_right) pattern.remove_suffix(1);
  if (is_open_left && is_open_right) return key.find(pattern) != std::string_view::npos;
  if (is_open_left) return key.ends_with(pattern);
  return is_open_right ? key.starts_with(pattern) : key == pattern;
}

// Returns the candidate that `name` most likely misspells, or "": up to two letters are wrong, or
// one in eight.
std::string misspelt(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kShortName = 8;
  size_t limit = 1 + (name.size() < kShortName ? 1 : std::max<size_t>(2, name.size() / kShortName));
  std::string best;
  for (const std::string& candidate : candidates) {
    // Each letter that only one of them has is an edit.
    const size_t longer = std::max(name.size(), candidate.size());
    if (longer - std::min(name.size(), candidate.size()) >= limit) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance >= limit) continue;
    best = candidate;
    limit = distance;
  }
  return best;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

JobReader::JobReader(const ImportRequest& request, KeyTable table, std::string_view known,
                     ForeignJob job)
    : request_(request), table_(table), known_(known), job_(std::move(job)) {
  imported_.source = request.source;
}

void JobReader::replace_overridden() {
  for (const ConfigAssignment& set : request_.overrides) {
    const auto row = std::find_if(table_.begin(), table_.end(), [&](const KeyPair& pair) {
      return pair.ours == set.key && pair.say == Say::Same && pair.words.empty();
    });
    const bool is_of_layout = set.key.starts_with("model.") || set.key.starts_with("parallel.");
    const auto* const number = std::get_if<int64_t>(&set.value);
    if (row == table_.end() || !is_of_layout || number == nullptr || *number < 1) continue;
    job_.set(std::string(row->theirs), *number, set.origin.where());
    take(row->theirs);
  }
}

std::string JobReader::place(std::string_view their_key) {
  const ForeignSetting* setting = take(their_key);
  return setting == nullptr ? request_.source : setting->where;
}

void JobReader::assign(std::string_view key, TomlValue value, std::string_view their_key) {
  const ForeignSetting* setting = their_key.empty() ? nullptr : take(their_key);
  const std::string origin =
      setting == nullptr ? request_.source : setting->where + ": " + shown(*setting);
  std::string text = text_of(value);
  imported_.assignments.push_back(
      {std::string(key), std::move(text), std::move(value), {origin, 0}});
}

void JobReader::read_row(const KeyPair& pair) {
  const ForeignSetting* setting = take(pair.theirs);
  if (pair.say == Say::Flag || pair.say == Say::NoFlag) {
    return assign(pair.ours, flag(pair.theirs) == (pair.say == Say::Flag), pair.theirs);
  }
  if (setting == nullptr && pair.value.empty()) return;
  const ForeignValue value = setting != nullptr ? setting->value : value_of_word(pair.value);
  if (pair.words.empty()) return assign(pair.ours, std::visit(ToToml{}, value), pair.theirs);
  std::string others;
  for (const WordPair& words : pair.words) {
    if (words.theirs == word_text(value)) {
      return assign(pair.ours, std::string(words.ours), pair.theirs);
    }
    others += fmt::format("{}{}", others.empty() ? "" : ", ", words.theirs);
  }
  refuse(pair.theirs, fmt::format("{} has no such value", pair.ours), "use one of " + others);
}

void JobReader::rows(std::string_view section) {
  for (const KeyPair& pair : table_) {
    const bool is_row = pair.say == Say::Same || pair.say == Say::Flag || pair.say == Say::NoFlag;
    if (is_row && pair.ours.substr(0, section.size()) == section) read_row(pair);
  }
}

std::optional<int64_t> JobReader::integer(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (setting == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<int64_t>(&setting->value)) return *value;
  wrong(key, "must be an integer", "write the number itself");
  return std::nullopt;
}

std::optional<std::string> JobReader::word(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (setting == nullptr) return std::nullopt;
  return word_text(setting->value);
}

std::optional<ForeignValue> JobReader::numeric(std::string_view key) {
  const std::optional<std::string> text = word(key);
  if (!text) return std::nullopt;
  ForeignValue value = value_of_word(*text);
  if (std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value)) return value;
  wrong(key, "must be a number", "write the number itself");
  return std::nullopt;
}

std::optional<double> JobReader::real(std::string_view key) {
  const std::optional<ForeignValue> value = numeric(key);
  if (!value) return std::nullopt;
  const auto* const integer = std::get_if<int64_t>(&*value);
  return integer != nullptr ? double(*integer) : std::get<double>(*value);
}

void JobReader::number(std::string_view ours, std::string_view theirs) {
  const std::optional<ForeignValue> value = numeric(theirs);
  if (value) assign(ours, std::visit(ToToml{}, *value), theirs);
}

bool JobReader::flag(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (setting == nullptr) return false;
  if (const auto* value = std::get_if<bool>(&setting->value)) return *value;
  if (const std::string text = word_text(setting->value); text == "true" || text == "false") {
    return text == "true";
  }
  wrong(key, "must be true or false", "write one of them");
  return false;
}

std::optional<NameLists> JobReader::lists(std::string_view key) {
  const ForeignSetting* setting = take(key);
  if (setting == nullptr) return std::nullopt;
  if (const auto* names = std::get_if<NameLists>(&setting->value)) return *names;
  wrong(key, "must be a list of lists", "write one list of modules for each stage");
  return std::nullopt;
}

bool JobReader::has(std::string_view key) { return take(key) != nullptr; }

void JobReader::assign_stages(const std::vector<int64_t>& layers, std::string_view their_key) {
  const auto empty = std::find(layers.begin(), layers.end(), 0);
  if (empty != layers.end() && empty + 1 != layers.end()) {
    return note(
        "some stages of the job have no layer; every stage but the last has one here, so the "
        "layers are split by their cost");
  }
  assign("parallel.stage_layers", fmt::format("{}", fmt::join(layers, ",")), their_key);
}

void JobReader::wrong(std::string_view their_key, std::string_view why, std::string_view remedy) {
  refuse(their_key, why, remedy);
  kind_ = ErrorKind::Usage;
}

void JobReader::refuse(std::string_view their_key, std::string_view why, std::string_view remedy) {
  const ForeignSetting* setting = take(their_key);
  const std::string what = setting == nullptr ? std::string(their_key) : shown(*setting);
  const std::string problem = fmt::format("{}: {}: {}; {}", place(their_key), what, why, remedy);
  if (std::find(problems_.begin(), problems_.end(), problem) != problems_.end()) return;
  problems_.push_back(problem);
}

void JobReader::refuse_all(std::span<const ForeignRefusal> refusals) {
  refusals_ = refusals;
  for (size_t i = 0; i < job_.settings().size(); ++i) {
    const ForeignSetting setting = job_.settings()[i];  // refuse() marks the job's own
    if (setting.is_used) continue;
    for (const ForeignRefusal& refusal : refusals) {
      if (!matches(refusal.pattern, setting.key)) continue;
      const std::string value = word_text(setting.value);
      const bool is_off = value == "false" || value == "null" || value == "None";
      const bool is_allowed = refusal.why.empty() || is_off;
      if (!is_allowed && (refusal.harmless.empty() || value != refusal.harmless)) {
        refuse(setting.key, refusal.why, refusal.remedy);
      }
      break;
    }
  }
}

void JobReader::need(std::string_view their_key) {
  if (has(their_key) || request_.has_base) return;
  wrong(their_key, "is missing", "add it to the job, or name a RUN.toml that has it");
}

void JobReader::sort_unused() {
  const std::vector<std::string> names = words_of(known_);
  const std::set<std::string, std::less<>> known(names.begin(), names.end());
  std::vector<std::string> read(asked_.begin(), asked_.end());
  for (const KeyPair& pair : table_) {
    for (std::string& key : words_of(pair.theirs)) read.push_back(std::move(key));
  }
  for (size_t i = 0; i < job_.settings().size(); ++i) {
    const ForeignSetting setting = job_.settings()[i];  // wrong() marks the job's own
    if (setting.is_used) continue;
    const bool is_known = known.contains(setting.key) ||
                          std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                            return name.ends_with('*') && matches(name, setting.key);
                          });
    const std::string meant = is_known ? "" : misspelt(setting.key, read);
    if (!meant.empty() && meant != setting.key) {
      wrong(setting.key, fmt::format("{} has no such setting", title_of(request_.trainer)),
            fmt::format("did you mean {}?", meant));
      continue;
    }
    const bool is_meant =
        is_known || meant == setting.key ||
        std::any_of(refusals_.begin(), refusals_.end(), [&](const ForeignRefusal& refusal) {
          return matches(refusal.pattern, setting.key);
        });
    (is_meant ? imported_.not_used : imported_.not_known)
        .push_back(setting.where + ": " + shown(setting));
  }
}

Result<ImportedJob> JobReader::finish() {
  sort_unused();
  if (!problems_.empty()) return Error{kind_, fmt::format("{}", fmt::join(problems_, "\n"))};
  return std::move(imported_);
}

}  // namespace trireme
