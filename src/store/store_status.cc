#include "store/store_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/or_list.h"

namespace trireme {
namespace {

constexpr size_t kMostLostFiles = 100;

int num_lacking(Store& store, const BlockRecord& block) {
  return int(std::ranges::count_if(block.servers, [&](int32_t server) {
    return server == kNoServer || store.target(server) == nullptr;
  }));
}

Status name_lost_files(Store& store, const std::set<uint64_t>& lost, StoreHealth& health) {
  if (lost.empty()) return Done{};
  TRIREME_TRY(files, store.files(""));
  for (const WrittenFile& file : files) {
    const bool is_lost = std::ranges::any_of(
        file.record.extents, [&](const Extent& extent) { return lost.contains(extent.block); });
    if (is_lost && health.lost_files.size() < kMostLostFiles) {
      health.lost_files.push_back(file.path);
    }
  }
  return Done{};
}

}  // namespace

Result<StoreHealth> health_of(Store& store) {
  TRIREME_TRY(overview, store.overview());
  StoreHealth health{.overview = overview};
  if (overview.maintainer != 0 && store.may_have_maintainer()) health.upkeep = overview.progress;
  const std::vector<std::string> metadata_problems = store.metadata_problems();
  for (int server = 0; server < store.num_servers(); ++server) {
    const size_t index = size_t(server);
    health.servers.push_back({overview.servers[index], overview.chunks_of_server[index],
                              overview.bytes_of_server[index], store.why_unusable(server),
                              store.target(server) == nullptr ? "" : metadata_problems[index]});
    health.stored_bytes += overview.bytes_of_server[index];
  }
  const StoreCode& code = store.code();
  health.blocks_lacking.resize(size_t(code.num_chunks()) + 1);
  std::set<uint64_t> lost;
  MetadataQuestion question{.kind = QuestionKind::Blocks, .most = 4096};
  for (;;) {
    TRIREME_TRY(answer, store.ask(question));
    if (answer.blocks.empty()) break;
    question.number = answer.blocks.back().id;
    for (const BlockRecord& block : answer.blocks) {
      const int lacking = num_lacking(store, block);
      const int64_t data_bytes = int64_t(code.num_data) * block.chunk_bytes;
      ++health.blocks_lacking[size_t(lacking)];
      if (lacking > 0) health.bytes_at_risk += data_bytes;
      if (lacking > code.num_parity) {
        health.bytes_lost += data_bytes;
        lost.insert(block.id);
      }
      health.chunks_to_repair += std::ranges::count(block.servers, kNoServer);
    }
  }
  TRIREME_TRY_DONE(name_lost_files(store, lost, health));
  return health;
}

std::string_view word_of(const StoreHealth& health) {
  if (health.bytes_lost > 0) return "lost";
  const bool all_intact = std::ranges::all_of(health.servers, [](const ServerHealth& server) {
    const bool is_usable =
        server.why_unusable.empty() || server.record.state == ServerState::Drained;
    return is_usable && server.metadata_problem.empty();
  });
  return health.bytes_at_risk == 0 && all_intact ? "healthy" : "degraded";
}

Result<int> find_server(const Overview& overview, const std::string& name) {
  std::vector<std::string> names;
  for (int server = 0; server < int(overview.servers.size()); ++server) {
    const ServerRecord& record = overview.servers[size_t(server)];
    if (record.name == name || record.address == name) return server;
    names.push_back(record.name);
  }
  return usage(
      fmt::format("no server of the store is called {}: there are {}", name, or_list(names)));
}

}  // namespace trireme
