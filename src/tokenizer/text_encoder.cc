#include "tokenizer/text_encoder.h"

namespace trireme {
namespace {

void clear(TextEncoder::Encoded& encoded) {
  encoded.tokens.clear();
  encoded.document_ends.clear();
}

Status encode_tile(const Tokenizer& tokenizer, const TextTile& tile, WordCache& cache,
                   TextEncoder::Encoded& encoded) {
  Status status = Done{};
  tile.for_each_part([&](std::string_view text, bool ends_document) {
    if (!status.ok()) return;
    status = tokenizer.append_tokens(text, cache, encoded.tokens);
    if (!ends_document) return;
    encoded.tokens.push_back(tokenizer.end_of_text());
    encoded.document_ends.push_back(encoded.tokens.size());
  });
  return status;
}

void append(const TextEncoder::Encoded& tile, TextEncoder::Encoded& all) {
  const size_t first_token = all.tokens.size();
  all.tokens.insert(all.tokens.end(), tile.tokens.begin(), tile.tokens.end());
  for (size_t end : tile.document_ends) all.document_ends.push_back(first_token + end);
}

}  // namespace

TextEncoder::TextEncoder(const Tokenizer& tokenizer, ThreadTeam& team)
    : tokenizer_(tokenizer), team_(team), caches_(static_cast<size_t>(team.size())) {}

Status TextEncoder::encode(TextBatch& batch, Encoded& encoded) {
  const LastSplit last_split = [this](std::string_view text) {
    return tokenizer_.last_split(text);
  };
  const size_t bytes = complete_bytes(batch, last_split);
  const std::vector<TextTile> tiles = make_tiles(batch, bytes, last_split);
  if (tiles_.size() < tiles.size()) tiles_.resize(tiles.size());
  std::vector<Status> statuses(tiles.size(), Done{});
  team_.parallel_for(static_cast<int64_t>(tiles.size()), [&](int64_t tile, int thread) {
    clear(tiles_[tile]);
    statuses[tile] = encode_tile(tokenizer_, tiles[tile], caches_[thread], tiles_[tile]);
  });
  clear(encoded);
  for (size_t tile = 0; tile < tiles.size(); ++tile) {
    TRIREME_TRY_DONE(statuses[tile]);
    append(tiles_[tile], encoded);
  }
  batch.drop_front(bytes);
  return Done{};
}

}  // namespace trireme
