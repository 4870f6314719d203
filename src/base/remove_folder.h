#pragma once

#include <string>

namespace trireme {

// Removes a folder and everything in it, also while other processes create and remove files there.
// (std::filesystem::remove_all gives up when a file that it has listed is gone.) Returns false if
// part of the folder is left after ten attempts.
bool remove_folder(const std::string& path);

}  // namespace trireme
