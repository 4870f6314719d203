#pragma once

#include <string>
#include <string_view>

namespace trireme {

class Tokenizer;

// Prints the frame of a tokenizer.json around the fields of its kind (lines that end with a comma).
std::string print_tokenizer_json(const Tokenizer& tokenizer, std::string_view fields);

}  // namespace trireme
