#pragma once

#include <functional>
#include <vector>

#include "store/store.h"

namespace trireme {

// Calls `visit` with the blocks that answer the question, and `after_answer` after each part of the
// answer.
Status for_each_block(Store& store, QuestionKind kind,
                      const std::function<Status(const BlockRecord&)>& visit,
                      const std::function<Status()>& after_answer = {});

// Returns the chunks that have no server, and those on the servers `left`.
std::vector<int> chunks_to_move(const BlockRecord& block, const std::vector<int>& left);

}  // namespace trireme
