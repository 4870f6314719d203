#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"

namespace trireme {

// `trireme data images PATH`: prints what a set of images holds, and reads all of them.
struct DataImagesOptions {
  std::string path;             // as open_image_set() reads it
  std::string split = "train";  // or "test"
  int64_t size = 224;           // images of a folder are scaled and cut to size x size
  int num_threads = 0;          // 0: all cores
  bool json = false;
};

// Prints the number of images of each class to `out` and the rate to `err`. Returns an error with
// the name of a damaged image.
Status run_data_images(const DataImagesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace trireme
