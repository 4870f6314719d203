#pragma once

#include <string>
#include <vector>

#include "store/store.h"

// A store whose servers are processes (`trireme store serve`).
namespace trireme {

// Makes a store of servers that belong to none yet, in their order. The first of them keep the
// metadata: five if there are five, or else three, or else one. Fills `file.servers` with their
// addresses.
Status create_shared_store(StoreFile& file, const std::vector<std::string>& servers,
                           const std::vector<std::string>& domains, const StoreOptions& options);

// Returns the description of the store to which the server at an address belongs.
Result<StoreFile> find_shared_store(const std::string& address, const std::string& secret);

}  // namespace trireme
