#include "store/visit_blocks.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr uint32_t kBlocksOfAnswer = 256;

}  // namespace

Status for_each_block(Store& store, QuestionKind kind,
                      const std::function<Status(const BlockRecord&)>& visit,
                      const std::function<Status()>& after_answer) {
  MetadataQuestion question{.kind = kind, .most = kBlocksOfAnswer};
  for (;;) {
    TRIREME_TRY(answer, store.ask(question));
    if (answer.blocks.empty()) return Done{};
    question.number = answer.blocks.back().id;
    for (const BlockRecord& block : answer.blocks) TRIREME_TRY_DONE(visit(block));
    if (after_answer) TRIREME_TRY_DONE(after_answer());
  }
}

std::vector<int> chunks_to_move(const BlockRecord& block, const std::vector<int>& left) {
  std::vector<int> chunks;
  for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
    const int32_t server = block.servers[size_t(chunk)];
    if (server == kNoServer || std::ranges::count(left, server) > 0) chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace trireme
