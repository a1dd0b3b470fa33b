"""What can be searched: domains, conditions, and the space they make."""

from raytree.space.conditions import Conditional, Test
from raytree.space.parameters import Categorical, Constant, Float, Integer, Normal
from raytree.space.template import Point
from raytree.space.tree import Path, Space
from raytree.space.when import when

__all__ = ["Categorical", "Conditional", "Constant", "Float", "Integer", "Normal", "Path", "Point", "Space", "Test", "when"]
