"""Task `cifar10`: photographs of 32x32 pixels in 10 classes.

Source: Krizhevsky, "Learning multiple layers of features from tiny images" (2009). Mean and deviation are
those of all training images (github.com/akamaster/pytorch_resnet_cifar10/issues/9).
"""

from harness.data.pictures import Pictures

PICTURES = Pictures("cifar10", mean=(0.4914, 0.4822, 0.4465), deviation=(0.2470, 0.2435, 0.2616))
fingerprint = PICTURES.fingerprint
train_size = PICTURES.train_size
ready = PICTURES.ready
load = PICTURES.load
