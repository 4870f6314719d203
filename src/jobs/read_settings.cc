#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/bounded_json.h"
#include "base/json_text.h"
#include "config/toml_limits.h"
#include "jobs/import_forms.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostSettings = 16384;
constexpr JsonLimits kJsonLimits = {
    .depth = 32, .values = int64_t{1} << 17, .members = limits::kOrderedMembers};

int line_of(std::string_view text, size_t byte) {
  return 1 + static_cast<int>(std::count(
                 text.begin(), text.begin() + ptrdiff_t(std::min(byte, text.size())), '\n'));
}

std::string joined(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

std::optional<NameLists> name_lists(const Json& array) {
  NameLists lists;
  for (const Json& list : array) {
    if (!list.is_array()) return std::nullopt;
    std::vector<std::string>& names = lists.emplace_back();
    for (const Json& name : list) {
      if (!name.is_string()) return std::nullopt;
      names.push_back(name.get<std::string>());
    }
  }
  return lists.empty() ? std::nullopt : std::optional(lists);
}

// Walks over the parsed text in its order, and beside it over the text itself, to know the lines.
class JsonWalk {
 public:
  JsonWalk(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  void visit(const std::string& key, const Json& value) {
    if (job.settings().size() > kMostSettings) return;
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        find(name);
        visit(joined(key, name), member);
      }
    } else if (value.is_array()) {
      visit_array(key, value);
    } else if (value.is_boolean()) {
      job.set(key, value.get<bool>(), where());
    } else if (value.is_number_integer()) {
      job.set(key, value.get<int64_t>(), where());
    } else if (value.is_number()) {
      job.set(key, value.get<double>(), where());
    } else if (value.is_string()) {
      job.set(key, value.get<std::string>(), where());
    }
  }

  ForeignJob job;

 private:
  void visit_array(const std::string& key, const Json& array) {
    if (auto lists = name_lists(array)) return job.set(key, std::move(*lists), where());
    job.set(key + ".#", static_cast<int64_t>(array.size()), where());
    int64_t index = 0;
    for (const Json& element : array) visit(fmt::format("{}.{}", key, index++), element);
  }
  // Moves to the next place where the name is written.
  void find(const std::string& name) {
    const size_t found = text_.find("\"" + name + "\"", at_);
    if (found == std::string_view::npos) return;
    line_ += static_cast<int>(
        std::count(text_.begin() + ptrdiff_t(at_), text_.begin() + ptrdiff_t(found), '\n'));
    at_ = found;
  }
  std::string where() const { return fmt::format("{}:{}", source_, line_); }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  int line_ = 1;
};

class TomlWalk {
 public:
  explicit TomlWalk(const std::string& source) : source_(source) {}

  void visit(const std::string& key, const toml::node& node) {
    if (job.settings().size() > kMostSettings) return;
    const std::string where = fmt::format("{}:{}", source_, node.source().begin.line);
    if (const auto* table = node.as_table()) {
      for (const auto& [name, member] : *table) visit(joined(key, std::string(name.str())), member);
    } else if (const auto* array = node.as_array()) {
      if (auto lists = name_lists(*array)) return job.set(key, std::move(*lists), where);
      job.set(key + ".#", static_cast<int64_t>(array->size()), where);
      int64_t index = 0;
      for (const toml::node& element : *array) visit(fmt::format("{}.{}", key, index++), element);
    } else if (const auto* flag = node.as_boolean()) {
      job.set(key, flag->get(), where);
    } else if (const auto* integer = node.as_integer()) {
      job.set(key, integer->get(), where);
    } else if (const auto* number = node.as_floating_point()) {
      job.set(key, number->get(), where);
    } else if (const auto* text = node.as_string()) {
      job.set(key, text->get(), where);
    } else {
      std::ostringstream type;
      type << node.type();
      job.set(key, type.str(), where);
    }
  }

  ForeignJob job;

 private:
  static std::optional<NameLists> name_lists(const toml::array& array) {
    NameLists lists;
    for (const toml::node& node : array) {
      const toml::array* list = node.as_array();
      if (list == nullptr) return std::nullopt;
      std::vector<std::string>& names = lists.emplace_back();
      for (const toml::node& name : *list) {
        if (!name.is_string()) return std::nullopt;
        names.push_back(name.as_string()->get());
      }
    }
    return lists.empty() ? std::nullopt : std::optional(lists);
  }

  const std::string& source_;
};

Error too_many(const std::string& source) {
  return usage(
      fmt::format("{}: more than {} settings; a job has a few hundred", source, kMostSettings));
}

}  // namespace

Result<ForeignJob> read_json_job(std::string_view text, const std::string& source) {
  if (static_cast<int64_t>(text.size()) > limits::kConfigFileBytes) {
    return usage(fmt::format("{}: {} bytes; a job has at most {}", source, text.size(),
                             limits::kConfigFileBytes));
  }
  if (const Status within = check_json_limits(text, kJsonLimits); !within.ok()) {
    return usage(source + ": " + within.error().message);
  }
  Json root;
  try {
    root = parse_ordered_json(text);
  } catch (const Json::parse_error& error) {
    return usage(fmt::format("{}:{}: not valid JSON: {}; correct the line", source,
                             line_of(text, error.byte), json_problem(error.what())));
  } catch (const Json::exception& error) {  // a number out of range
    return usage(
        fmt::format("{}: not valid JSON: {}; correct it", source, json_problem(error.what())));
  }
  if (!root.is_object()) return usage(source + ":1: not an object; a job is { \"key\": value }");
  JsonWalk walk(text, source);
  walk.visit("", root);
  if (walk.job.settings().size() > kMostSettings) return too_many(source);
  return std::move(walk.job);
}

Result<ForeignJob> read_toml_job(std::string_view text, const std::string& source) {
  const Status within = check_toml_limits(text);
  if (!within.ok()) return usage(source + ":" + within.error().message);
  TomlWalk walk(source);
  try {
    const toml::table root = toml::parse(text, source);
    walk.visit("", root);
  } catch (const toml::parse_error& error) {
    return usage(fmt::format("{}:{}: not valid TOML: {}; correct the line", source,
                             error.source().begin.line, error.description()));
  }
  if (walk.job.settings().size() > kMostSettings) return too_many(source);
  return std::move(walk.job);
}

}  // namespace trireme
