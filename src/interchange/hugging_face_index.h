#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// Returns the files that a model.safetensors.index.json names: at least one, all in its own folder.
Result<std::set<std::string>> parse_hugging_face_index(std::string_view json);

}  // namespace trireme
