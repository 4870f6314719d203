#include "cli/open_store.h"

#include "store/store_file.h"

namespace trireme {

Result<std::string> stores_folder(const std::string& at, const CommandIo& io) {
  if (!at.empty()) return at;
  if (!io.stores_folder.empty()) return io.stores_folder;
  return usage("neither HOME nor TRIREME_STORES is set; name the folder of store files with --at");
}

Result<OpenStore> open_store(const std::string& text, const std::string& at, StoreAccess access,
                             const CommandIo& io) {
  OpenStore open;
  if (is_store_url(text)) {
    TRIREME_TRY(url, parse_store_url(text));
    open.url = url;
  } else {
    open.url.store = text;
  }
  TRIREME_TRY(folder, stores_folder(at, io));
  TRIREME_TRY(file, find_store(folder, open.url.store));
  const StoreOptions options{.access = access,
                             .lock_path = store_file_path(folder, file.name) + ".lock"};
  TRIREME_TRY(store, Store::open(file, options));
  open.store = std::move(store);
  return open;
}

}  // namespace trireme
