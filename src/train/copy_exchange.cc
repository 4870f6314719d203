#include "train/copy_exchange.h"

#include <algorithm>
#include <bit>

#include "checkpoint/check_coverage.h"
#include "comm/gather_text.h"

namespace trireme {
namespace {

// The words of a rank: 0 if its copy is made, its file, and its checksums.
constexpr int64_t kFirstChecksum = 2;

CollectiveArgs exchange_of(std::vector<int64_t>& own, std::vector<int64_t>& all,
                           const std::vector<int64_t>& counts) {
  return {.collective = Collective::AllGather,
          .in = {own.data(), DType::I64, Shape{int64_t(own.size())}},
          .out = {all.data(), DType::I64, Shape{int64_t(all.size())}},
          .counts = counts};
}

}  // namespace

Result<IndexPart> CopyExchange::plan(Group& ranks, const StateShard& state) {
  const std::vector<std::string> texts =
      gather_text(ranks, print_index_part(state.numbered_part()));
  IndexPart whole;
  int64_t num_slices = 0;
  for (const std::string& text : texts) {
    IndexPart part = parse_index_part(text).value();
    const int64_t first = num_slices;
    for (auto& [name, tensor] : part.tensors) {
      for (StoredSlice& slice : tensor.slices) {
        slice.checksum += uint64_t(first);
        ++num_slices;
      }
    }
    counts_.push_back(kFirstChecksum + num_slices - first);
    TRIREME_TRY_DONE(merge_index_part(whole, part));
  }
  TRIREME_TRY_DONE(check_coverage(whole));
  checksums_.resize(size_t(num_slices));
  files_.resize(size_t(ranks.size()));
  own_.resize(size_t(counts_[size_t(ranks.rank())]));
  all_.resize(size_t(num_slices + kFirstChecksum * ranks.size()));
  ranks.reserve(exchange_of(own_, all_, counts_));
  return whole;
}

bool CopyExchange::run(Group& ranks, bool is_copied, int64_t file,
                       std::span<const HashedCopy> copies) {
  own_[0] = is_copied ? 0 : 1;
  own_[1] = file;
  for (size_t i = 0; i < copies.size(); ++i) {
    own_[kFirstChecksum + i] = std::bit_cast<int64_t>(copies[i].checksum);
  }
  ranks.run(exchange_of(own_, all_, counts_));
  const int64_t* word = all_.data();
  uint64_t* checksum = checksums_.data();
  bool have_all = true;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const int64_t* const end = word + counts_[size_t(rank)];
    have_all = have_all && word[0] == 0;
    files_[size_t(rank)] = word[1];
    checksum = std::transform(word + kFirstChecksum, end, checksum,
                              [](int64_t bits) { return std::bit_cast<uint64_t>(bits); });
    word = end;
  }
  return have_all;
}

}  // namespace trireme
