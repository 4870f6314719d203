#include "sharding/halo.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

constexpr int kMostPeers = 64;
using Counts = std::array<int64_t, kMostPeers>;

// Some rows of every image of a tensor [images, rows of the range, numbers of a row].
struct Band {
  std::byte* data = nullptr;
  IndexRange rows;
};

// What one rank exchanges with the others. Rows have their numbers in the whole image.
class HaloExchange {
 public:
  HaloExchange(Group& group, const Placement& halo, const Shape& global, DType dtype)
      : group_(group),
        halo_(halo),
        extent_(global[1]),
        images_(global[0]),
        row_elements_(global[2]),
        dtype_(dtype) {
    TRIREME_CHECK(group.size() <= kMostPeers, "a mesh axis has at most 64 ranks here");
    for (int peer = 0; peer < group.size(); ++peer) {
      lent_[size_t(peer)] = elements_of(lent_to(peer));
      borrowed_[size_t(peer)] = elements_of(borrowed_from(peer));
    }
  }

  IndexRange own() const {
    return local_range(extent_, Placement::shard(1), group_.size(), group_.rank());
  }
  IndexRange read() const { return local_range(extent_, halo_, group_.size(), group_.rank()); }
  // Own rows that a peer reads, and the peer's rows that this rank reads.
  IndexRange lent_to(int peer) const {
    return halo_rows(extent_, halo_, group_.size(), group_.rank(), peer);
  }
  IndexRange borrowed_from(int peer) const {
    return halo_rows(extent_, halo_, group_.size(), peer, group_.rank());
  }

  // y = x in the rows of the range.
  void copy(const IndexRange& rows, const Band& x, const Band& y) const {
    if (rows.count() == 0) return;
    for (int64_t image = 0; image < images_; ++image) {
      std::memcpy(row_of(y, image, rows.begin), row_of(x, image, rows.begin),
                  size_t(rows.count() * row_bytes()));
    }
  }
  // y += x in the rows of the range.
  void add(const IndexRange& rows, const Band& x, const Band& y) const {
    for (int64_t image = 0; image < images_ && rows.count() > 0; ++image) {
      add_elements(row_of(x, image, rows.begin), rows.count() * row_elements_,
                   row_of(y, image, rows.begin));
    }
  }
  void clear(const IndexRange& rows, const Band& y) const {
    for (int64_t image = 0; image < images_ && rows.count() > 0; ++image) {
      std::memset(row_of(y, image, rows.begin), 0, size_t(rows.count() * row_bytes()));
    }
  }

  // The scratch holds first what is sent, one peer after the other, then what is received. Calls
  // pack(peer, its place) and, behind the exchange, unpack(peer, its place).
  template <typename Pack, typename Unpack>
  void run(bool lends, std::span<std::byte> scratch, const CallSite& site, Pack&& pack,
           Unpack&& unpack) const {
    if (!has_halo_rows(extent_, halo_, group_.size())) return;
    const Counts& sent = lends ? lent_ : borrowed_;
    const Counts& received = lends ? borrowed_ : lent_;
    std::byte* const begin = scratch.data();
    std::byte* const middle = for_each_block(begin, sent, pack);
    const auto flat = [&](std::byte* data, const Counts& counts) {
      int64_t elements = 0;
      for (int peer = 0; peer < group_.size(); ++peer) elements += counts[size_t(peer)];
      return TensorRef{data, dtype_, Shape{elements}};
    };
    const auto counts_of = [&](const Counts& counts) {
      return std::span<const int64_t>(counts.data(), size_t(group_.size()));
    };
    group_.run({.collective = Collective::AllToAll,
                .in = flat(begin, sent),
                .out = flat(middle, received),
                .counts = counts_of(sent),
                .recv_counts = counts_of(received)},
               site);
    for_each_block(middle, received, unpack);
  }

 private:
  int64_t row_bytes() const { return row_elements_ * size_of(dtype_); }
  int64_t elements_of(const IndexRange& rows) const {
    return images_ * rows.count() * row_elements_;
  }
  std::byte* row_of(const Band& band, int64_t image, int64_t row) const {
    return band.data + (image * band.rows.count() + row - band.rows.begin) * row_bytes();
  }
  template <typename Body>
  std::byte* for_each_block(std::byte* block, const Counts& counts, Body&& body) const {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (counts[size_t(peer)] == 0) continue;
      body(peer, block);
      block += counts[size_t(peer)] * size_of(dtype_);
    }
    return block;
  }
  template <typename T>
  static void add_as(const std::byte* x, int64_t count, std::byte* y) {
    const T* from = reinterpret_cast<const T*>(x);
    T* to = reinterpret_cast<T*>(y);
    for (int64_t i = 0; i < count; ++i) to[i] = T(float(to[i]) + float(from[i]));
  }
  void add_elements(const std::byte* x, int64_t count, std::byte* y) const {
    switch (dtype_) {
      case DType::F32:
        return add_as<float>(x, count, y);
      case DType::BF16:
        return add_as<bf16>(x, count, y);
      case DType::F16:
        return add_as<f16>(x, count, y);
      default:
        TRIREME_CHECK(false, "rows of a halo are fp32, bf16 or fp16");
    }
  }

  Group& group_;
  Placement halo_;
  int64_t extent_, images_, row_elements_;
  DType dtype_;
  Counts lent_, borrowed_;
};

Band band_of(const TensorRef& x, const IndexRange& rows) {
  return {static_cast<std::byte*>(x.data), rows};
}

}  // namespace

void fetch_halo(Group& group, const Placement& halo, const Shape& global, const TensorRef& x,
                const TensorRef& y, std::span<std::byte> scratch, const CallSite& site) {
  const HaloExchange rows(group, halo, global, x.dtype);
  const Band own = band_of(x, rows.own()), read = band_of(y, rows.read());
  rows.copy(shared_by(own.rows, read.rows), own, read);
  rows.run(
      true, scratch, site,
      [&](int peer, std::byte* block) {
        const IndexRange lent = rows.lent_to(peer);
        rows.copy(lent, own, {block, lent});
      },
      [&](int peer, std::byte* block) {
        const IndexRange borrowed = rows.borrowed_from(peer);
        rows.copy(borrowed, {block, borrowed}, read);
      });
}

void return_halo(Group& group, const Placement& halo, const Shape& global, const TensorRef& x,
                 const TensorRef& y, std::span<std::byte> scratch, const CallSite& site) {
  const HaloExchange rows(group, halo, global, x.dtype);
  const Band read = band_of(x, rows.read()), own = band_of(y, rows.own());
  const IndexRange both = shared_by(own.rows, read.rows);
  if (both.count() != own.rows.count()) rows.clear(own.rows, own);
  rows.copy(both, read, own);
  rows.run(
      false, scratch, site,
      [&](int peer, std::byte* block) {
        const IndexRange borrowed = rows.borrowed_from(peer);
        rows.copy(borrowed, read, {block, borrowed});
      },
      [&](int peer, std::byte* block) {
        const IndexRange lent = rows.lent_to(peer);
        rows.add(lent, {block, lent}, own);
      });
}

}  // namespace trireme
