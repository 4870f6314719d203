#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/disk_faults.h"

namespace trireme {

// The store and the server to which a folder belongs. The file FOLDER/store.json has it.
struct FolderIdentity {
  uint64_t store = 0;
  std::string store_name;
  std::string server;
  uint64_t incarnation = 1;
  bool operator==(const FolderIdentity&) const = default;
};
// The text of this file, which ends with its checksum.
std::string text_of(const FolderIdentity& identity);
Result<FolderIdentity> parse_identity(const std::string& text);
// The path of this file.
std::string identity_path(const std::string& folder);
Status write_identity(const std::string& folder, const FolderIdentity& identity,
                      DiskFaults* faults);
// Returns an error if the folder has no store.json, or a damaged one.
Result<FolderIdentity> read_identity(const std::string& folder);
// Returns the name of something in a folder without an identity that no server has put there, or
// "". An interrupted server may have left files, which it replaces.
std::string foreign_entry_of(const std::string& folder);
// True if the folder exists and has at most the folder lost+found, which file systems make.
bool is_empty_folder(const std::string& folder);

}  // namespace trireme
