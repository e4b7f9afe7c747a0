#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagator/pde/geometry/cuboid.h"
#include "propagator/pde/geometry/shape.h"

namespace propagator::pde {

// How shapes make a region: one of them, the box of the domain, or two that are
// united, taken from each other, or intersected.
struct Combination {
  enum class Kind { kShape, kBox, kUnion, kDifference, kIntersection };

  Kind kind = Kind::kBox;
  int64_t shape = 0;
  std::vector<Combination> parts = {};
};

// A region of S variables of space: a combination of shapes, within a box. Its
// edge has a part for each shape, that of the shape's edge which has the region
// on one side alone, and the region may touch the faces of the box.
class Region {
 public:
  struct Named {
    std::string name;
    std::shared_ptr<const Shape> shape;
  };
  Region(Box box, std::vector<Named> shapes, Combination inside);

  const Box& box() const { return box_; }
  int64_t dimensions() const { return box_.dimensions(); }
  const std::vector<Named>& shapes() const { return shapes_; }
  // (N), as Shape has it; of the region within its box.
  torch::Tensor distance(const torch::Tensor& points) const;
  // (N), of bools; `slack`: also that far outside, beside the box's diagonal.
  torch::Tensor contains(const torch::Tensor& points, double slack = 0) const;
  // Of the box, by many points of it; 0: none of them is inside.
  double share() const { return share_; }

  // Those of points (N, S - 1) of the unit cube that give points of a part of
  // the edge, by their rows; normals point out of the region.
  struct Part {
    EdgePoints edge;
    torch::Tensor rows;
  };
  Part part(int64_t shape, const torch::Tensor& unit) const;
  // Of the shape's edge, so much bounds the region; 0: none.
  double share_of_part(int64_t shape) const {
    return part_shares_[static_cast<size_t>(shape)];
  }
  double size_of_part(int64_t shape) const;
  // Whether a part lies on the edges of earlier shapes, which have it too.
  bool is_covered(int64_t shape) const;
  // (N): which points of a face of the box the region touches; `uncovered`:
  // and no shape's edge has them.
  torch::Tensor touches(const torch::Tensor& points, int64_t axis, bool high,
                        bool uncovered = false) const;
  // Of the face, so much is touched.
  double share_of_face(int64_t axis, bool high, bool uncovered = false) const;

  // Corners of shapes in the plane around which more of the region lies than
  // of a half plane: `angle` of it, to both sides of the direction `middle`.
  struct InnerCorner {
    double x = 0, y = 0, angle = 0, middle = 0;
  };
  std::vector<InnerCorner> inner_corners() const;

  // Where a part of the edge goes beyond the box, and how far.
  struct Beyond {
    int64_t shape, axis;
    double at, by;
  };
  std::optional<Beyond> beyond_box() const;

 private:
  // Without the box around it.
  torch::Tensor combined(const Combination& one,
                         const torch::Tensor& points) const;
  // 1 where the region is on the inner side of a shape's edge alone, -1 on the
  // outer one alone, else 0; `clipped`: within the box.
  torch::Tensor sides(const EdgePoints& edge, bool clipped) const;
  torch::Tensor is_inside(const torch::Tensor& points, bool clipped) const;
  torch::Tensor on_edges(const torch::Tensor& points, int64_t shapes) const;
  std::optional<InnerCorner> inner_corner_at(double x, double y) const;

  Box box_;
  Cuboid cuboid_;
  std::vector<Named> shapes_;
  Combination inside_;
  double diagonal_ = 0, share_ = 0;
  std::vector<double> part_shares_;
};

}  // namespace propagator::pde
