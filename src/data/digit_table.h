#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/image_set.h"

namespace trireme {

// Reads the handwritten digits of the UCI repository as scikit-learn ships them (digits.csv.gz, in
// Debian's package python3-sklearn): a line for each image of 8 x 8 pixels, with 64 numbers from 0
// to 16 and the digit, separated by commas. Numbers may be written as 16, 16.0 or 1.6e+01. Pixels
// are scaled to 0 .. 255.
Result<std::unique_ptr<HeldImages>> read_digit_table(const std::string& path);
Result<std::unique_ptr<HeldImages>> parse_digit_table(std::string_view text,
                                                      const std::string& name);

}  // namespace trireme
