#include "observe/graph_layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

constexpr double kBetweenBoxes = 26;
constexpr double kBetweenLayers = 40;
constexpr int kOrderSweeps = 12;
constexpr int kPositionSweeps = 40;

// A box, or the place where an edge passes a layer.
struct Item {
  int box = -1;
  int layer = 0;
  double width = 2;
  double x = 0;  // left
  int rank = 0;  // in its layer
};

// An edge between items of neighbouring layers; long edges are chains of them.
struct Connection {
  int upper = 0, lower = 0;
  double upper_offset = 0, lower_offset = 0;
  double weight = 1;  // how straight it is to be
};

class LayerLayout {
 public:
  explicit LayerLayout(GraphLayout& layout) : layout_(layout) {}

  void run() {
    make_items();
    order_layers();
    position_items();
    write_boxes();
    write_edges();
  }

 private:
  void make_items() {
    std::vector<int> layer_of(layout_.boxes.size(), 0);
    for (size_t box = 0; box < layout_.boxes.size(); ++box) {
      for (const LayoutEdge& edge : layout_.edges) {
        TRIREME_CHECK(edge.from < edge.to, "edges lead to later boxes");
        if (size_t(edge.to) != box) continue;
        layer_of[box] = std::max(layer_of[box], layer_of[size_t(edge.from)] + 1);
      }
      add_item({.box = int(box), .layer = layer_of[box], .width = layout_.boxes[box].width});
    }
    for (const LayoutEdge& edge : layout_.edges) add_chain(edge);
  }

  int add_item(const Item& item) {
    if (size_t(item.layer) >= layers_.size()) layers_.resize(size_t(item.layer) + 1);
    items_.push_back(item);
    layers_[size_t(item.layer)].push_back(int(items_.size()) - 1);
    return int(items_.size()) - 1;
  }

  void add_chain(const LayoutEdge& edge) {
    chains_.emplace_back();
    int upper = edge.from;
    double offset = edge.from_offset;
    const int last = items_[size_t(edge.to)].layer;
    for (int layer = items_[size_t(upper)].layer + 1; layer < last; ++layer) {
      const int passing = add_item({.layer = layer});
      chains_.back().push_back(passing);
      links_.push_back({upper, passing, offset, 1, upper == edge.from ? 2.0 : 8.0});
      upper = passing;
      offset = 1;
    }
    links_.push_back({upper, edge.to, offset, edge.to_offset, upper == edge.from ? 1.0 : 2.0});
  }

  void set_ranks() {
    for (const std::vector<int>& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) items_[size_t(layer[i])].rank = int(i);
    }
  }

  // Where a link ends in the order of its layer.
  double place(int item, double offset) const {
    return items_[size_t(item)].rank + offset / items_[size_t(item)].width;
  }

  int num_crossings() const {
    int crossings = 0;
    for (size_t i = 0; i < links_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Connection& a = links_[i];
        const Connection& b = links_[j];
        if (items_[size_t(a.upper)].layer != items_[size_t(b.upper)].layer) continue;
        const double above = place(a.upper, a.upper_offset) - place(b.upper, b.upper_offset);
        const double below = place(a.lower, a.lower_offset) - place(b.lower, b.lower_offset);
        crossings += above * below < 0 ? 1 : 0;
      }
    }
    return crossings;
  }

  // Sorts a layer by the mean place of its neighbours above or below.
  void sort_layer(std::vector<int>& layer, bool by_upper) {
    std::vector<double> key(items_.size());
    for (const int item : layer) {
      double sum = 0;
      int count = 0;
      for (const Connection& link : links_) {
        if ((by_upper ? link.lower : link.upper) != item) continue;
        sum +=
            by_upper ? place(link.upper, link.upper_offset) : place(link.lower, link.lower_offset);
        ++count;
      }
      key[size_t(item)] = count > 0 ? sum / count : items_[size_t(item)].rank;
    }
    std::stable_sort(layer.begin(), layer.end(),
                     [&](int a, int b) { return key[size_t(a)] < key[size_t(b)]; });
    for (size_t i = 0; i < layer.size(); ++i) items_[size_t(layer[i])].rank = int(i);
  }

  void order_layers() {
    set_ranks();
    std::vector<std::vector<int>> best = layers_;
    int fewest = num_crossings();
    for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t i = 0; i < layers_.size(); ++i) {
        sort_layer(layers_[down ? i : layers_.size() - 1 - i], down);
      }
      const int crossings = num_crossings();
      if (crossings >= fewest) continue;
      fewest = crossings;
      best = layers_;
    }
    layers_ = std::move(best);
    set_ranks();
  }

  // Moves the items of a layer as near to their neighbours as the order and the distances between
  // them allow: a regression that keeps the order, by pooling neighbours that would overlap.
  void position_layer(const std::vector<int>& layer) {
    struct Pool {
      double sum, weight;
      size_t count;
      double mean() const { return sum / weight; }
    };
    std::vector<Pool> pools;
    std::vector<double> starts;  // of each item if all stood as close as they may
    double start = 0;
    for (const int item : layer) {
      double sum = 0, weight = 0;
      for (const Connection& link : links_) {
        if (link.upper != item && link.lower != item) continue;
        const bool is_upper = link.upper == item;
        const Item& other = items_[size_t(is_upper ? link.lower : link.upper)];
        const double offset = is_upper ? link.lower_offset - link.upper_offset
                                       : link.upper_offset - link.lower_offset;
        sum += link.weight * (other.x + offset);
        weight += link.weight;
      }
      if (weight == 0) {
        weight = 1e-3;
        sum = weight * items_[size_t(item)].x;
      }
      pools.push_back({sum - weight * start, weight, 1});
      starts.push_back(start);
      start += items_[size_t(item)].width + kBetweenBoxes;
      while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
        const Pool last = pools.back();
        pools.pop_back();
        pools.back().sum += last.sum;
        pools.back().weight += last.weight;
        pools.back().count += last.count;
      }
    }
    size_t i = 0;
    for (const Pool& pool : pools) {
      for (size_t n = 0; n < pool.count; ++n, ++i) {
        items_[size_t(layer[i])].x = pool.mean() + starts[i];
      }
    }
  }

  void position_items() {
    for (const std::vector<int>& layer : layers_) {
      double x = 0;
      for (const int item : layer) {
        items_[size_t(item)].x = x;
        x += items_[size_t(item)].width + kBetweenBoxes;
      }
    }
    for (int sweep = 0; sweep < kPositionSweeps; ++sweep) {
      for (size_t i = 0; i < layers_.size(); ++i) {
        position_layer(layers_[sweep % 2 == 0 ? i : layers_.size() - 1 - i]);
      }
    }
    double left = items_.front().x;
    for (const Item& item : items_) left = std::min(left, item.x);
    for (Item& item : items_) {
      item.x -= left;
      layout_.width = std::max(layout_.width, item.x + item.width);
    }
  }

  void write_boxes() {
    heights_.assign(layers_.size(), 0);
    for (const Item& item : items_) {
      if (item.box < 0) continue;
      double& height = heights_[size_t(item.layer)];
      height = std::max(height, layout_.boxes[size_t(item.box)].height);
    }
    tops_.assign(layers_.size(), 0);
    for (size_t i = 1; i < tops_.size(); ++i) {
      tops_[i] = tops_[i - 1] + heights_[i - 1] + kBetweenLayers;
    }
    layout_.height = tops_.back() + heights_.back();
    for (const Item& item : items_) {
      if (item.box < 0) continue;
      LayoutBox& box = layout_.boxes[size_t(item.box)];
      box.x = item.x;
      box.y = tops_[size_t(item.layer)];
    }
  }

  void write_edges() {
    for (size_t i = 0; i < layout_.edges.size(); ++i) {
      LayoutEdge& edge = layout_.edges[i];
      const LayoutBox& from = layout_.boxes[size_t(edge.from)];
      const LayoutBox& to = layout_.boxes[size_t(edge.to)];
      const size_t layer = size_t(items_[size_t(edge.from)].layer);
      const double begin = from.x + edge.from_offset, end = to.x + edge.to_offset;
      edge.points = {{begin, from.y + from.height}, {begin, tops_[layer] + heights_[layer]}};
      for (const int passing : chains_[i]) {
        const Item& item = items_[size_t(passing)];
        const double top = tops_[size_t(item.layer)];
        edge.points.push_back({item.x + 1, top});
        edge.points.push_back({item.x + 1, top + heights_[size_t(item.layer)]});
      }
      edge.points.push_back({end, to.y});
      edge.points.push_back({end, to.y});
    }
  }

  GraphLayout& layout_;
  std::vector<Item> items_;
  std::vector<Connection> links_;
  std::vector<std::vector<int>> layers_;  // items from left to right
  std::vector<std::vector<int>> chains_;  // [edge] items that it passes
  std::vector<double> heights_, tops_;    // [layer]
};

}  // namespace

void lay_out(GraphLayout& layout) {
  if (!layout.boxes.empty()) LayerLayout(layout).run();
}

}  // namespace trireme
