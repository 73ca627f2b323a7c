"""Embedders: a backbone, a head and unit length. The only room that imports timm and torchvision.models."""

from shadowmetric.models.backbones import BACKBONES as BACKBONES
from shadowmetric.models.batch_norm import freeze_batch_norm as freeze_batch_norm
from shadowmetric.models.batch_norm import has_batch_norm as has_batch_norm
from shadowmetric.models.build import build_embedder as build_embedder
from shadowmetric.models.embedder import Embedder as Embedder
from shadowmetric.models.embedder import parameter_groups as parameter_groups
from shadowmetric.models.mistake import ModelMistake as ModelMistake
