#include "checkpoint/strict_json.h"

#include <algorithm>
#include <charconv>

#include "base/bounded_json.h"
#include "base/json_text.h"

namespace trireme::strict_json {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) { return ascii_json_text(json(text)); }

int64_t count(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    throw FieldError{where + ": not a count (an integer from 0 to 2^63 - 1)"};
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

// Builds a tree of what the parser reads. With a visitor, it passes on each member of the root and
// of its sections as soon as it is complete, and then drops it.
class TreeBuilder {
 public:
  explicit TreeBuilder(json& root) : root_(root) {}
  TreeBuilder(json& root, const std::vector<std::string>& sections, const Visit& visit)
      : root_(root), sections_(&sections), visit_(&visit) {}

  // Callbacks of the parser. They return true to continue.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // only in other formats
  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (is_visited()) {
      (open_.size() == 1 ? name_ : section_name_) = std::move(name);
      return true;
    }
    const auto [member, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new) refuse_twice(name);
    slot_ = &member->second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception& failure) {
    throw FieldError{"not JSON: " + json_problem(failure.what())};
  }

 private:
  // True if the members of the open container go to the visitor.
  bool is_visited() const {
    if (visit_ == nullptr || open_.empty() || !open_.back()->is_object()) return false;
    return open_.size() == 1 || (open_.size() == 2 && in_section_);
  }

  json* place(json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (visit_ != nullptr && ++num_held_ > limits::kHeldValues) {
      throw FieldError{"the entry " + strict_json::quoted(name_) + " has more than " +
                       std::to_string(limits::kHeldValues) + " values"};
    }
    if (is_visited()) return &(visited_[open_.size() - 1] = std::move(value));
    if (open_.back()->is_array()) {
      return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    }
    return &(*slot_ = std::move(value));
  }
  void hand_over() {
    if (!is_visited()) return;
    num_held_ = 0;
    const bool is_member = open_.size() == 1;
    (*visit_)(is_member ? "" : name_, is_member ? name_ : section_name_,
              visited_[open_.size() - 1]);
  }
  bool add(json value) {
    place(std::move(value));
    hand_over();
    return true;
  }
  bool open(json container) {
    const bool is_section =
        is_visited() && open_.size() == 1 && container.is_object() &&
        std::find(sections_->begin(), sections_->end(), name_) != sections_->end();
    json* placed = place(std::move(container));
    if (is_section) {
      json empty = json::object();
      (*visit_)("", name_, empty);
    }
    in_section_ = in_section_ || is_section;
    open_.push_back(placed);
    return true;
  }
  bool close() {
    open_.pop_back();
    if (open_.size() == 1 && in_section_) {
      in_section_ = false;  // it was visited when it began
    } else {
      hand_over();
    }
    return true;
  }

  json& root_;
  const std::vector<std::string>* sections_ = nullptr;
  const Visit* visit_ = nullptr;
  std::vector<json*> open_;   // from the root to the innermost container
  json* slot_ = nullptr;      // the value of the last key
  json visited_[2];           // the open member of the root, and the open member of its section
  std::string name_;          // name of the root's open member
  std::string section_name_;  // name of the section's open member
  bool in_section_ = false;
  int64_t num_held_ = 0;  // values in the open member
};

void read(std::string_view text, const JsonLimits& limits, TreeBuilder& builder) {
  const Status within = check_json_limits(text, limits);
  if (!within.ok()) throw FieldError{within.error().message};
  json::sax_parse(text.begin(), text.end(), &builder);
}

}  // namespace

json parse(std::string_view text, int max_depth) {
  json root;
  TreeBuilder builder(root);
  read(text, {.depth = max_depth}, builder);
  return root;
}

void for_each_member(std::string_view text, int max_depth, const std::vector<std::string>& sections,
                     const Visit& visit) {
  json root;
  TreeBuilder builder(root, sections, visit);
  read(text, {.depth = max_depth, .values = limits::kStreamedValues}, builder);
  if (!root.is_object()) throw FieldError{"not an object"};
}

void refuse_twice(const std::string& key) { throw FieldError{"the key " + quoted(key) + " twice"}; }

const json& member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw FieldError{where + ": not an object"};
  const auto found = object.find(key);
  if (found == object.end()) throw FieldError{where + ": no key \"" + key + "\""};
  return *found;
}

const json& object_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_object()) throw FieldError{where + "." + key + ": not an object"};
  return value;
}

std::string string_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_string()) throw FieldError{where + "." + key + ": not a string"};
  return value.get<std::string>();
}

int64_t count_member(const json& object, const char* key, const std::string& where) {
  return count(member(object, key, where), where + "." + key);
}

uint64_t hex_member(const json& object, const char* key, const std::string& where) {
  const std::string text = string_member(object, key, where);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    throw FieldError{where + "." + key + ": not 16 hexadecimal digits"};
  }
  return value;
}

std::vector<int64_t> counts(const json& array, const std::string& where) {
  if (!array.is_array()) throw FieldError{where + ": not an array"};
  std::vector<int64_t> values;
  values.reserve(array.size());
  for (const json& value : array) values.push_back(count(value, where));
  return values;
}

}  // namespace trireme::strict_json
