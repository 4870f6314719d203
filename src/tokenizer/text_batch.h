#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A part of a stream of documents. Document k is text[document_ends[k - 1], document_ends[k]). The
// text after the last end is the beginning of an open document.
struct TextBatch {
  std::string text;
  std::vector<size_t> document_ends;

  size_t open_begin() const { return document_ends.empty() ? 0 : document_ends.back(); }
  // Drops the first `bytes` bytes and the document ends in them.
  void drop_front(size_t bytes);
};

// Returns a position, as late as possible, where a text may be cut without changing its tokens; 0
// if there is none.
using LastSplit = std::function<size_t(std::string_view)>;

// Returns how many bytes at the front of a batch can be encoded before the rest is known: whole
// documents, and the open one up to its last split. After kGreatestUncutBytes without any split the
// text is cut anyway, so that memory stays bounded.
size_t complete_bytes(const TextBatch& batch, const LastSplit& last_split);
inline constexpr size_t kGreatestUncutBytes = size_t{64} << 20;

// A part of a batch for one thread.
struct TextTile {
  std::string_view text;
  std::span<const size_t> document_ends;  // relative to the first byte of the batch
  size_t begin = 0;                       // of the tile in the batch

  // Calls visit(document part, whether the document ends with it) in order.
  template <typename Visit>
  void for_each_part(Visit&& visit) const {
    size_t part_begin = 0;
    for (size_t end : document_ends) {
      visit(text.substr(part_begin, end - begin - part_begin), true);
      part_begin = end - begin;
    }
    if (part_begin < text.size()) visit(text.substr(part_begin), false);
  }
};

// Cuts the first `bytes` bytes (from complete_bytes) of a batch into tiles of about tile_bytes, so
// that the tokens of the parts are those of the documents. The borders do not depend on the number
// of threads.
std::vector<TextTile> make_tiles(const TextBatch& batch, size_t bytes, const LastSplit& last_split,
                                 size_t tile_bytes = size_t{128} << 10);

}  // namespace trireme
