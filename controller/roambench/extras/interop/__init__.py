"""Benches in the words of other tools: Ansible's inventories and labgrid's places and resources."""
