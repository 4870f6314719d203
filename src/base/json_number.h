#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trireme {

// Whole numbers of JSON texts that may come from anywhere. The library's own get<int64_t>() takes
// every number: it cuts off what the type cannot hold, and its result for 1e30 is undefined.

// Integer is int, int64_t or uint64_t. Throws nlohmann::json::type_error if the value is not
// written as a whole number, and nlohmann::json::out_of_range if Integer cannot hold it.
template <typename Integer>
Integer whole_number(const nlohmann::json& value);

// Returns `otherwise` if the object lacks the key, or if the value is no object. Throws as above.
template <typename Integer>
Integer whole_number_or(const nlohmann::json& object, const char* key, Integer otherwise);

}  // namespace trireme
