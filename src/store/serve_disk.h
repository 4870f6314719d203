#pragma once

#include <functional>

#include "store/store_server.h"

namespace trireme {

// Serves a folder until `is_over` returns true. If its disk is gone, the server ends and waits for
// a disk at this folder. The old disk is served again as it is. An empty one is served without a
// store, until a scrub takes it in or the old disk is back; but it is not served where no disk is
// mounted and one was before. `on_serving` gets the address each time that the folder is served.
Status serve_disk(const StoreServerOptions& options, const std::function<bool()>& is_over,
                  const std::function<void(const std::string& address)>& on_serving);

}  // namespace trireme
