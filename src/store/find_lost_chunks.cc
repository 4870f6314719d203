// Finds files of chunks that count as lost and are intact: a read may have been wrong, or their
// disk has been mended.

#include <algorithm>
#include <map>
#include <vector>

#include "store/repair.h"
#include "store/visit_blocks.h"

namespace trireme {

Result<int64_t> find_lost_chunks(Store& store) {
  TRIREME_TRY(overview, store.overview());
  std::map<uint64_t, BlockRecord> lacking;
  TRIREME_TRY_DONE(
      for_each_block(store, QuestionKind::Queue, [&](const BlockRecord& block) -> Status {
        lacking[block.id] = block;
        return Done{};
      }));
  MetadataCommand place{.kind = CommandKind::Place};
  place.view = overview.view;
  for (int server = 0; server < store.num_servers(); ++server) {
    ChunkTarget* const target = store.target(server);
    if (target == nullptr) continue;
    const Result<std::vector<ChunkName>> names = target->list();
    if (!names.ok()) continue;
    for (const ChunkName& name : *names) {
      const auto found = lacking.find(name.block);
      if (found == lacking.end()) continue;
      BlockRecord& block = found->second;
      const bool is_wanted = name.chunk < int(block.servers.size()) &&
                             block.servers[size_t(name.chunk)] == kNoServer &&
                             std::ranges::count(block.servers, server) == 0;
      if (!is_wanted) continue;
      std::vector<std::byte> bytes(block.chunk_bytes);
      const ChunkRead read = target->read(name, bytes, block.checksums[size_t(name.chunk)]);
      if (read.state != ChunkState::Intact) continue;
      block.servers[size_t(name.chunk)] = server;
      place.moves.push_back({block.id, name.chunk, kNoServer, server});
    }
  }
  const auto num_found = int64_t(place.moves.size());
  if (num_found > 0) TRIREME_TRY_DONE(store.change(std::move(place)));
  return num_found;
}

}  // namespace trireme
