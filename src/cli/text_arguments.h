#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace trireme {

// Arguments and options that several commands for text share.
Argument text_argument(std::vector<std::string>& paths, bool required = true);
Option format_option(std::string& format);
Option field_option(std::string& field);
Option binary_option(bool& is_binary_read);
Option tokenizer_option(std::string& tokenizer);

// Option values that are words, beside the options struct that receives the matching enumerators.
template <typename Options>
struct WithWords {
  Options options;
  std::string format = "auto";
  std::string held_out = "auto";
};

}  // namespace trireme
