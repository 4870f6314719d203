#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme {

// A file that one of our readers accepts, its name in its folder, and the function that reads the
// folder. Other files of the folder are not changed.
struct CraftedFormat {
  std::string name;    // such as "gguf"
  std::string folder;  // contains a valid file
  std::string file;    // name of the file that is changed
  // Reads the folder as the program does. Returns "" or the reason of a refusal.
  std::function<std::string()> read;
  // Corrects the checksums of the changed content, so that the parser behind them is reached.
  std::function<std::string(std::string)> seal;
};

// Writes every format with our own writers into folders of `root`.
std::vector<CraftedFormat> crafted_formats(const std::string& root);

}  // namespace trireme
