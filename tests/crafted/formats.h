#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme {

// A file that one of our readers takes: its name in the folder, and who reads the folder. Other
// files of the folder stay as they are.
struct CraftedFormat {
  std::string name;    // "gguf"
  std::string folder;  // holds a file that reads well
  std::string file;    // in the folder; the one that is changed
  // Reads it as the program does. "" or why it is refused.
  std::function<std::string()> read;
  // Makes checksums of the changed content right, so that the parser behind them is reached.
  std::function<std::string(std::string)> seal;
};

// Every format, written by our own writers into folders of `root`.
std::vector<CraftedFormat> crafted_formats(const std::string& root);

}  // namespace trireme
