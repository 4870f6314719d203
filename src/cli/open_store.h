#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/store_command.h"
#include "store/store.h"
#include "store/store_path.h"

namespace trireme {

// Returns the folder of the store files: `at`, or else $TRIREME_STORES, or else ~/.trireme/stores.
Result<std::string> stores_folder(const std::string& at, const CommandIo& io);

// How long a command waits until it may write to a store in folders, in seconds. Such a store has
// one writer at a time, and a scrub may take that long.
inline constexpr double kWriterLockS = 60.0;

struct OpenStore {
  StoreUrl url;
  std::unique_ptr<Store> store;
};
// Opens the store of store://NAME/PATH, or of NAME alone. The lock and the secret are set here.
Result<OpenStore> open_store(const std::string& text, const StorePlace& place, StoreOptions options,
                             const CommandIo& io);

}  // namespace trireme
