#include "interchange/hugging_face_index.h"

#include <unordered_set>

#include "base/input_limits.h"
#include "checkpoint/strict_json.h"

namespace trireme {
namespace {

// True if the name is that of a file beside the index.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

Result<std::set<std::string>> parse_hugging_face_index(std::string_view json) {
  try {
    std::set<std::string> files;
    nlohmann::json fields = nlohmann::json::object();
    std::unordered_set<std::string> tensors;
    strict_json::for_each_member(
        json, 8, {"weight_map"},
        [&](const std::string& section, const std::string& name, nlohmann::json& value) {
          if (section.empty()) {
            if (fields.contains(name)) strict_json::refuse_twice(name);
            fields[name] = std::move(value);
            return;
          }
          if (!tensors.insert(name).second) strict_json::refuse_twice(name);
          if (static_cast<int64_t>(tensors.size()) > limits::kIndexedTensors) {
            throw strict_json::FieldError{"weight_map: more than " +
                                          std::to_string(limits::kIndexedTensors) + " tensors"};
          }
          const std::string file = value.is_string() ? value.get<std::string>() : "";
          if (!is_file_name(file)) {
            throw strict_json::FieldError{"weight_map." + name +
                                          " is not the name of a file beside it"};
          }
          files.insert(file);
          if (static_cast<int64_t>(files.size()) > limits::kFilesOfModel) {
            throw strict_json::FieldError{"weight_map: more than " +
                                          std::to_string(limits::kFilesOfModel) + " files"};
          }
        });
    strict_json::object_member(fields, "weight_map", "index");
    if (files.empty()) return damaged("weight_map is empty");
    return files;
  } catch (const strict_json::FieldError& failure) {
    return damaged(failure.message);
  }
}

}  // namespace trireme
