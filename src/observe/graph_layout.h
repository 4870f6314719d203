#pragma once

#include <vector>

namespace trireme {

// Places the boxes of a data flow in layers from top to bottom and leads edges between them around
// the boxes (Sugiyama et al. 1981: layers, order within a layer, coordinates). Sizes are pixels.
struct LayoutPoint {
  double x = 0, y = 0;
};

struct LayoutBox {
  double width = 0, height = 0;
  double x = 0, y = 0;  // left and top; written
};

// From the bottom of one box to the top of a later one; offsets are from the left of the boxes.
struct LayoutEdge {
  int from = 0;
  double from_offset = 0;
  int to = 0;
  double to_offset = 0;
  // Written: pairs of points, each a straight way down; between two pairs the edge bends.
  std::vector<LayoutPoint> points = {};
};

struct GraphLayout {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutEdge> edges;
  double width = 0, height = 0;  // written
};

// Every edge leads to a box behind its own.
void lay_out(GraphLayout& layout);

}  // namespace trireme
