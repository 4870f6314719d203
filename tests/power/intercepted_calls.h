#pragma once

#include <functional>
#include <string>
#include <vector>

// intercepted_calls.cc replaces the calls of the C library that change a disk, in the whole binary.
namespace trireme {

enum class Guard { None, SyncOfFiles, SyncOfFolders };

// From now on, `before_change` is called before every change below one of these folders, each of
// which is the root of a file system of its own, and once more when half of a write has been done.
// Changes of several threads happen one after the other, and none during `before_change`, whose own
// changes are not watched. Syncs of the kind `removed` do nothing.
void watch_disks(std::vector<std::string> folders, std::function<void()> before_change,
                 Guard removed);
void stop_watching();

}  // namespace trireme
