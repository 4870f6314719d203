#pragma once

#include <functional>

#include "store/store_server.h"

namespace trireme {

// Serves a folder until `is_over` returns true. If its disk is gone, the server ends and waits for
// a disk at this folder. The old disk is served again as it is. An empty one is served without a
// store; but it is not served where no disk is mounted and one was before. With `options.join`, the
// server itself takes the empty disk in as soon as every file can be read without the old one.
// Otherwise a scrub does so, or the old disk comes back. `on_serving` gets the address each time
// that the folder is served.
Status serve_disk(const StoreServerOptions& options, const std::function<bool()>& is_over,
                  const std::function<void(const std::string& address)>& on_serving);

}  // namespace trireme
