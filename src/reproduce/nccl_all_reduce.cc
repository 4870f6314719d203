// All-reduces that were measured inside one node. VIA-Research/vTrain (MIT licence, KAIST):
// nccl-tests on A100 with 3, 5, 6 and 7 devices; `make fit` reads those with 2, 4 and 8.
// NVIDIA/nccl, issue 1455: bandwidth of a vector of 4 GiB on H100 whose switches sum.

#include <fmt/format.h>

#include "compile/collective_price.h"
#include "reproduce/published_clusters.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

constexpr double kMiB = 1048576.0;

struct AllReduceRow {
  const char* device;
  int ranks;
  double mebibytes, microseconds;
};

constexpr AllReduceRow kRows[] = {
    {"A100", 3, 1, 63.91},
    {"A100", 3, 2, 70.8},
    {"A100", 3, 4, 79.23},
    {"A100", 3, 8, 103.6},
    {"A100", 3, 16, 155.0},
    {"A100", 3, 32, 266.5},
    {"A100", 3, 64, 500.3},
    {"A100", 3, 128, 928.9},
    {"A100", 3, 256, 1786.0},
    {"A100", 3, 512, 3466.8},
    {"A100", 3, 1024, 6757.1},
    {"A100", 5, 1, 62.77},
    {"A100", 5, 2, 61.18},
    {"A100", 5, 4, 78.62},
    {"A100", 5, 8, 123.8},
    {"A100", 5, 16, 198.8},
    {"A100", 5, 32, 322.2},
    {"A100", 5, 64, 568.3},
    {"A100", 5, 128, 1066.7},
    {"A100", 5, 256, 2037.0},
    {"A100", 5, 512, 3935.8},
    {"A100", 5, 1024, 7653.2},
    {"A100", 6, 1, 73.0},
    {"A100", 6, 2, 74.61},
    {"A100", 6, 4, 82.55},
    {"A100", 6, 8, 126.7},
    {"A100", 6, 16, 203.2},
    {"A100", 6, 32, 304.0},
    {"A100", 6, 64, 565.7},
    {"A100", 6, 128, 1120.8},
    {"A100", 6, 256, 2115.9},
    {"A100", 6, 512, 4020.6},
    {"A100", 6, 1024, 7883.3},
    {"A100", 7, 1, 77.96},
    {"A100", 7, 2, 78.25},
    {"A100", 7, 4, 84.18},
    {"A100", 7, 8, 134.4},
    {"A100", 7, 16, 227.6},
    {"A100", 7, 32, 332.8},
    {"A100", 7, 64, 599.9},
    {"A100", 7, 128, 1147.4},
    {"A100", 7, 256, 2190.9},
    {"A100", 7, 512, 4106.0},
    {"A100", 7, 1024, 8112.8},
    // 258, 265, 270 and 273 GB/s of the vector.
    {"H100", 5, 4096, 16647.2},
    {"H100", 6, 4096, 16207.4},
    {"H100", 7, 4096, 15907.3},
    {"H100", 8, 4096, 15732.5},
};

}  // namespace

Result<Reproduction> reproduce_nccl_all_reduce() {
  Reproduction result;
  result.source =
      "nccl-tests on one node: VIA-Research/vTrain (A100), NVIDIA/nccl issue 1455 (H100)";
  result.table = {.quantity = "all-reduce", .unit = "ms", .digits = 3};
  result.notes = {
      "The prices of 2, 4 and 8 A100 are fitted to other rows of the same source; none of these "
      "is.",
      "The roofline is the bytes that a rank sends in a ring over the bandwidth of its link.",
  };
  const Hardware a100 = dgx_a100_80g(), h100 = dgx_h100();
  for (const AllReduceRow& row : kRows) {
    const bool is_a100 = std::string_view(row.device) == "A100";
    const Hardware& hardware = is_a100 ? a100 : h100;
    const RankSpan span{row.ranks, 1};
    const double sent = 2.0 * row.mebibytes * kMiB * (row.ranks - 1) / row.ranks;
    const CollectivePrice price = price_collective(hardware, span, VectorMove::AllReduce, sent);
    result.table.rows.push_back({.row = fmt::format("{:.0f} MiB on {} {}: {}", row.mebibytes,
                                                    row.ranks, row.device, text_of(price)),
                                 .part = row.device,
                                 .measured = row.microseconds * 1e-3,
                                 .predicted = price.seconds * 1e3,
                                 .roofline = sent / group_link(hardware, span).bytes_per_s * 1e3});
  }
  return result;
}

}  // namespace trireme
