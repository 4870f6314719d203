#include "tokenizer/text_batch.h"

#include <algorithm>

namespace trireme {
namespace {

// Returns the end of the tile that starts at `begin`, if no document ends up to `limit`.
size_t split_in_document(std::string_view text, size_t begin, size_t limit, size_t greatest_end,
                         const LastSplit& last_split) {
  for (; limit < greatest_end; limit = begin + (limit - begin) * 2) {
    const size_t split = last_split(text.substr(begin, limit - begin));
    if (split > 0) return begin + split;
  }
  return greatest_end;
}

}  // namespace

void TextBatch::drop_front(size_t bytes) {
  text.erase(0, bytes);
  const auto kept = std::upper_bound(document_ends.begin(), document_ends.end(), bytes);
  document_ends.erase(document_ends.begin(), kept);
  for (size_t& end : document_ends) end -= bytes;
}

size_t complete_bytes(const TextBatch& batch, const LastSplit& last_split) {
  const size_t open_begin = batch.open_begin();
  const std::string_view open = std::string_view(batch.text).substr(open_begin);
  if (open.size() >= kGreatestUncutBytes) {
    const size_t split = last_split(open);
    return open_begin + (split > 0 ? split : open.size());
  }
  return open_begin + last_split(open);
}

std::vector<TextTile> make_tiles(const TextBatch& batch, size_t bytes, const LastSplit& last_split,
                                 size_t tile_bytes) {
  const std::string_view text(batch.text);
  const std::span<const size_t> ends(batch.document_ends);
  std::vector<TextTile> tiles;
  size_t first_end = 0;  // index of the first document end that is in no tile yet
  if (bytes == 0 && ends.empty()) return tiles;
  size_t begin = 0;
  do {  // runs at least once, because a document may end whose text was encoded before
    const size_t limit = std::min(bytes, begin + tile_bytes);
    size_t last_end = first_end;
    while (last_end < ends.size() && ends[last_end] <= limit) ++last_end;
    size_t end = limit;
    if (limit < bytes && last_end > first_end) {
      end = ends[last_end - 1];
    } else if (limit < bytes) {
      const size_t document_end = last_end < ends.size() ? std::min(ends[last_end], bytes) : bytes;
      end = split_in_document(text, begin, limit, document_end, last_split);
      while (last_end < ends.size() && ends[last_end] == end) ++last_end;
    }
    tiles.push_back(
        {text.substr(begin, end - begin), ends.subspan(first_end, last_end - first_end), begin});
    first_end = last_end;
    begin = end;
  } while (begin < bytes);
  return tiles;
}

}  // namespace trireme
