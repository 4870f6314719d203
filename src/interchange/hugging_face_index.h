#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// The files that a model.safetensors.index.json names: at least one, all beside it.
Result<std::set<std::string>> parse_hugging_face_index(std::string_view json);

}  // namespace trireme
