"""Task `cifar100`: photographs of 32x32 pixels in 100 classes.

Source: Krizhevsky, "Learning multiple layers of features from tiny images" (2009). Mean and deviation are
those of all training images (github.com/gpleiss/efficient_densenet_pytorch/issues/68).
"""

from harness.data.pictures import Pictures

PICTURES = Pictures("cifar100", mean=(0.5071, 0.4867, 0.4408), deviation=(0.2675, 0.2565, 0.2761))
fingerprint = PICTURES.fingerprint
train_size = PICTURES.train_size
ready = PICTURES.ready
load = PICTURES.load
