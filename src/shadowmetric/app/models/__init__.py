"""Embedders: a backbone, a head and unit length. The only room that imports timm and torchvision.models."""

from shadowmetric.app.models.backbones import BACKBONES as BACKBONES
from shadowmetric.app.models.batch_norm import freeze_batch_norm as freeze_batch_norm
from shadowmetric.app.models.batch_norm import has_batch_norm as has_batch_norm
from shadowmetric.app.models.build import build_embedder as build_embedder
from shadowmetric.app.models.embedder import Embedder as Embedder
from shadowmetric.app.models.embedder import parameter_groups as parameter_groups
from shadowmetric.errors import ModelMistake as ModelMistake
