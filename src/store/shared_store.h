#pragma once

#include <string>
#include <vector>

#include "store/store.h"

// A store whose servers are processes (`trireme store serve`).
namespace trireme {

// Makes a store of servers that belong to no store yet. `servers` has their addresses, `domains`
// the failure domain of each; if it is empty, each host is one. The first five servers keep the
// metadata, or the first three if there are fewer than five, or the first one; their addresses are
// written to `file.servers`. After an error the servers belong to no store again; those that do not
// answer any more are named, and need empty folders.
Status create_shared_store(StoreFile& file, const std::vector<std::string>& servers,
                           const std::vector<std::string>& domains, const StoreOptions& options);

// Returns the description of the store to which the server at an address belongs.
Result<StoreFile> find_shared_store(const std::string& address, const std::string& secret);

}  // namespace trireme
