// `trireme store serve`.

#include <fmt/format.h>

#include <mutex>
#include <ostream>

#include "cli/stop_signals.h"
#include "cli/store_command.h"
#include "store/serve_disk.h"

namespace trireme {
namespace {

constexpr double kRepairRoundS = 2.0;

}  // namespace

Result<int> run_store_serve(const StoreServeOptions& options, CommandIo& io) {
  if (io.launch.secret.empty()) {
    return usage(
        "servers of a store know each other by a secret: export TRIREME_SECRET=$(openssl "
        "rand -hex 32), the same for all servers and commands of the store");
  }
  if (!(options.scrub_share >= 0.0 && options.scrub_share < 1.0)) {
    return usage(fmt::format("--scrub-share {}: a share of the time is at least 0 and below 1",
                             options.scrub_share));
  }
  if (!(options.repair_mib >= 0.0 && options.lost_after_s > 0.0)) {
    return usage("--repair-rate must be at least 0, and --lost-after more than 0");
  }
  std::mutex mutex;
  const auto log = [&](const std::string& sentence) {
    const std::lock_guard lock(mutex);
    io.err << sentence << std::endl;
  };
  const std::atomic<int>& num_signals = catch_stop_signals(SignalWords::None);
  TRIREME_TRY_DONE(serve_disk(
      {.folder = options.dir,
       .listen = options.listen,
       .secret = io.launch.secret,
       .join = options.join,
       .scrub = {.disk_share = options.scrub_share},
       .repair = {.round_s = options.repair_mib > 0.0 ? kRepairRoundS : 0.0,
                  .lost_server_s = options.lost_after_s,
                  .bytes_per_s = options.repair_mib * double(1 << 20)},
       .log = log},
      [&] { return num_signals != 0; },
      [&](const std::string& address) { log(fmt::format("{} serves {}", address, options.dir)); }));
  return 0;
}

}  // namespace trireme
