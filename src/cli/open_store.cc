#include "cli/open_store.h"

#include <fmt/format.h>

#include "store/shared_store.h"
#include "store/store_file.h"

namespace trireme {

Result<std::string> stores_folder(const std::string& at, const CommandIo& io) {
  if (!at.empty()) return at;
  if (!io.stores_folder.empty()) return io.stores_folder;
  return usage("neither HOME nor TRIREME_STORES is set; name the folder of store files with --at");
}

namespace {

// Returns the description of the store. For a store in folders it also sets the path of the lock;
// servers need no lock, because they tell writers apart.
Result<StoreFile> find_file(const std::string& name, const StorePlace& place, StoreOptions& options,
                            const CommandIo& io) {
  if (!place.join.empty()) {
    TRIREME_TRY(shared, find_shared_store(place.join, options.secret));
    if (shared.name == name) return shared;
    return usage(
        fmt::format("{} is a server of the store {}, not of {}", place.join, shared.name, name));
  }
  TRIREME_TRY(folder, stores_folder(place.at, io));
  TRIREME_TRY(file, find_store(folder, name));
  if (file.servers.empty()) options.lock_path = store_file_path(folder, file.name) + ".lock";
  return file;
}

}  // namespace

Result<OpenStore> open_store(const std::string& text, const StorePlace& place, StoreOptions options,
                             const CommandIo& io) {
  OpenStore open;
  if (is_store_url(text)) {
    TRIREME_TRY(url, parse_store_url(text));
    open.url = url;
  } else {
    open.url.store = text;
  }
  options.secret = io.launch.secret;
  TRIREME_TRY(file, find_file(open.url.store, place, options, io));
  TRIREME_TRY(store, Store::open(file, options));
  open.store = std::move(store);
  return open;
}

}  // namespace trireme
