#include "comm/gather_text.h"

#include <numeric>

namespace trireme {

std::vector<std::string> gather_text(Group& group, const std::string& text, CallSite site) {
  const int64_t own = int64_t(text.size());
  std::vector<int64_t> sizes(size_t(group.size()));
  int64_t own_copy = own;
  group.all_gather({&own_copy, DType::I64, Shape{1}},
                   {sizes.data(), DType::I64, Shape{int64_t(sizes.size())}}, Algorithm::Auto, site);
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::string copy = text;
  std::string all(size_t(total), '\0');
  group.run({.collective = Collective::AllGather,
             .in = {copy.data(), DType::U8, Shape{own}},
             .out = {all.data(), DType::U8, Shape{total}},
             .counts = sizes},
            site);
  std::vector<std::string> texts;
  size_t begin = 0;
  for (int64_t size : sizes) {
    texts.push_back(all.substr(begin, size_t(size)));
    begin += size_t(size);
  }
  return texts;
}

}  // namespace trireme
