"""Recordings of topics, MCAP files and ROS 2 bags: messages of several rates become the timesteps of one episode."""
