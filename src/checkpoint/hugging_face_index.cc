#include "checkpoint/hugging_face_index.h"

#include "checkpoint/strict_json.h"

namespace trireme {
namespace {

// A name beside the index, which leads nowhere else.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

Result<std::set<std::string>> parse_hugging_face_index(std::string_view json) {
  try {
    const nlohmann::json object = strict_json::parse(json, 8);
    std::set<std::string> files;
    for (const auto& [tensor, file] :
         strict_json::object_member(object, "weight_map", "index").items()) {
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      if (!is_file_name(name)) {
        return damaged("weight_map." + tensor + " is not the name of a file beside it");
      }
      files.insert(name);
    }
    if (files.empty()) return damaged("weight_map is empty");
    return files;
  } catch (const strict_json::FieldError& failure) {
    return damaged(failure.message);
  }
}

}  // namespace trireme
